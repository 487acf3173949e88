"""python -m tars."""

import sys

from tars.cli import main

if __name__ == "__main__":
    sys.exit(main())
