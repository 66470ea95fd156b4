"""The machine: processes, shared memory, containers, signals and the terminal."""
