// A package with functions that are linked from elsewhere needs a file of assembly.
