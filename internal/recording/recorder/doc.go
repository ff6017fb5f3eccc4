// Package recorder writes recordings: it appends events to memory that is read elsewhere, in the
// format of package recording, from the words that a fire has for a tracer.
//
// Each thread of the runtime has a shard of its own, which it finds and writes in assembly, without
// a lock. Threads without one, other architectures and untested versions of Go share shards with
// locks. A shard whose chunk is full takes the oldest chunk that no shard writes to. A fire never
// waits for another: if it finds no shard, its event is counted as dropped.
//
// No data that determines where a writer writes is in the shared memory: processes that change the
// memory can spoil the recording, but not the program.
package recorder
