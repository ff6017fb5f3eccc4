// Package sandbox tests the package in what programs are locked into: seccomp
// filters, namespaces, and systems without this or that. It is a module of its own,
// so that what it needs is no dependency of the package's.
package sandbox
