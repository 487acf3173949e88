"""python -m tars, and where the command `tars` begins."""

import sys


def main() -> int:
    """Run tars; Ctrl-C while it is still starting ends it as quietly as later."""
    try:
        from tars.cli import main as run

        return run()
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
