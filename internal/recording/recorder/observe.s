// The package has a function whose body is in package stapsdt: see Observe. Without a file of
// assembly, the compiler would refuse that.
