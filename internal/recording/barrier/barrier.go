// Package barrier orders accesses to memory that other processes share, where the guarantees
// of sync/atomic do not suffice: they order what precedes a store and what follows a load, and a
// chunk of a recording that is reused needs the opposite.
package barrier
