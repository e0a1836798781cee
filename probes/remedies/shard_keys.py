def shard_keys(keys, rank, world_size):
    if not 0 <= rank < world_size:
        raise ValueError("rank {} of {}".format(rank, world_size))
    return [key for index, key in enumerate(keys) if index % world_size == rank]
