//go:build 386 || amd64 || s390x

package barrier

// Load does nothing where the processor keeps loads in their order: 386, amd64 and s390x. It is
// not inlined, so that the compiler keeps the order too.
//
//go:noinline
func Load() {}

// Store is like Load for stores.
//
//go:noinline
func Store() {}
