import sys

sys.exit("usage: train.py CONFIG")
