// Package law tests, from outside, the law of the ready-made packages: being traced or observed never changes a program,
// keeps no thread, goroutine or lock for an operation in flight, and a bounded number of bytes, which are released.
// Program holder has the operations. What programs get from each package, and the memory of each, the packages' own tests hold.
package law
