// Package barrier orders accesses to memory that other processes share, where the guarantees
// of sync/atomic do not suffice: they order the accesses before a store and after a load, but
// the reuse of a recording's chunk needs the opposite.
package barrier
