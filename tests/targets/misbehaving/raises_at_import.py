raise RuntimeError("the config file is missing")
