"""What is asked of the operating system: files opened safely, memory, turns of the processor."""
