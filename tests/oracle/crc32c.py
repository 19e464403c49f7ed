"""CRC-32C (RFC 3720), a bit at a time: TensorBoard's records and the indices of Zarr's shards carry it."""


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff
