"""The Parquet files of tests/fuzz/corpus/arrays and what they hold.

make_parquet.py FOLDER   writes them anew; needs pyarrow, polars and fastparquet (pip)
"""
import sys

import numpy as np

ROWS = 60
FILES = {  # the writer, and how
    "plain.parquet": ("pyarrow", dict(compression="none", use_dictionary=False)),
    "snappy.parquet": ("pyarrow", dict(compression="snappy", row_group_size=25)),
    "second.parquet": ("pyarrow", dict(compression="zstd", data_page_version="2.0", data_page_size=64,
                                       write_page_checksum=True)),
    "deltas.parquet": ("pyarrow", dict(compression="gzip", use_dictionary=False, write_statistics=False,
                                       column_encoding={"i": "DELTA_BINARY_PACKED", "d": "BYTE_STREAM_SPLIT"})),
    "raw_lz4.parquet": ("pyarrow", dict(compression="lz4", data_page_version="2.0")),
    "polars.parquet": ("polars", {}),
    "fast.parquet": ("fastparquet", dict(compression="SNAPPY")),
}


def columns():
    """Numbers by formulas; masked where there is none. `words` is text."""
    k = np.arange(ROWS)
    return {
        "d": (k * 37 % 101) / 8 - 5,
        "f": (k * 53 % 97).astype("f4") / 4,
        "i": (k * k % 17 - 5) * 1000003,
        "small": (k % 5).astype("i4"),
        "bytes": (k * 3 % 256).astype("u1"),
        "yes": k % 3 == 0,
        "holes": np.ma.masked_array(k * 2, k % 4 == 1),
        "words": np.array([f"w{i % 3}" for i in k]),
    }


def main():
    folder = sys.argv[1]
    for name, (writer, how) in FILES.items():
        path, held = f"{folder}/{name}", columns()
        if writer == "fastparquet":
            import fastparquet
            import pandas
            frame = pandas.DataFrame({n: pandas.array(d.filled(0), dtype="Int64") if n == "holes" else d
                                      for n, d in held.items()})
            frame.loc[np.ma.getmaskarray(held["holes"]), "holes"] = pandas.NA
            fastparquet.write(path, frame, write_index=False, **how)
            continue
        import pyarrow
        import pyarrow.parquet
        table = pyarrow.table({n: pyarrow.array(np.ma.getdata(d), mask=np.ma.getmaskarray(d) if n == "holes" else None)
                               for n, d in held.items()})
        if writer == "polars":
            import polars
            polars.from_arrow(table).write_parquet(path)
        else:
            pyarrow.parquet.write_table(table, path, **how)


if __name__ == "__main__":
    main()
