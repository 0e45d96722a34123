# The benchmark against other programs, one file per line; bench/README.md tells how to run it.
EXTRA_DIST += bench/README.md
EXTRA_DIST += bench/RESULTS.md
EXTRA_DIST += bench/alone.py
EXTRA_DIST += bench/gpt2.ini
EXTRA_DIST += bench/lamoe.ini
EXTRA_DIST += bench/limits.c
EXTRA_DIST += bench/notes.md
EXTRA_DIST += bench/run.py
EXTRA_DIST += bench/run.sh
EXTRA_DIST += bench/switch.ini
EXTRA_DIST += bench/table.py
EXTRA_DIST += bench/twin.py
EXTRA_DIST += bench/twin_llama.py
EXTRA_DIST += bench/twin_models.py
EXTRA_DIST += bench/twin_routers.py
EXTRA_DIST += bench/verify.py
EXTRA_DIST += bench/workloads.py
