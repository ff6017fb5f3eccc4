// Package sandbox tests the package in what programs are locked into: seccomp
// filters, namespaces, and systems without this or that.
package sandbox
