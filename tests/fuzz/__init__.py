"""Any bytes where others' bytes are read: only documented errors come out, in bounded time and memory.

Each target is a function of bytes. hypothesis calls it in the tests, and atheris, which looks for new branches, in
``make fuzz``. A finding is kept in ``corpus/<target>`` and tried by each run of the tests.
"""
