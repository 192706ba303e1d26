"""How fast and how good is it?"""

import os

# Before numpy is imported: its BLAS threads wait for more work by spinning, some 30 ms on a core that whatever is
# measured next would need, and their time counts as that of the process.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
