"""``python -m rankwise``."""

import sys

from rankwise.cli import main

sys.exit(main())
