"""Carriers of messages between a coordinator and its sites: sockets, NVFlare, Flower.

Nothing here trains, and nothing imports torch: the processes that NVFlare and Flower start only
pass messages on.
"""
