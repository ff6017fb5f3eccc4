// The compiler accepts a function without a body, such as Record, in a package with assembly.
