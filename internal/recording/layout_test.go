package recording

import (
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// layout holds the constants of this package under the names that
// cstapsdt/recorder/recording.def has for them.
var layout = map[string]uint64{
	"MAJOR": Major, "MINOR": Minor,
	"CLOCK_MONOTONIC": uint64(Monotonic), "CLOCK_COUNTER": uint64(Counter),
	"HEAD_BYTES": HeadBytes, "CHUNK_BYTES": ChunkBytes, "CHUNK_HEAD_BYTES": ChunkHeadBytes,
	"RECORD_HEAD_BYTES": RecordHeadBytes, "PROBE_HEAD_BYTES": probeHeadBytes, "ARG_BYTES": argBytes, "MAX_SHARDS": MaxShards,
	"OFF_MAJOR": offMajor, "OFF_MINOR": offMinor, "OFF_CLOCK": offClock, "OFF_TABLE_BYTES": offTableBytes,
	"OFF_TABLE_USED": OffTableUsed, "OFF_CHUNKS": OffChunks, "OFF_SHARDS": offShards, "OFF_PID": OffPID,
	"OFF_START": offStart, "OFF_BOOT": offBoot, "OFF_HEAD_READING": OffBegin, "OFF_DROPPED": OffDropped,
	"OFF_ENDED": OffEnded, "OFF_BESIDE": OffBeside, "OFF_EXECUTABLE": offExecutable, "OFF_LATEST": OffLatest,
	"OFF_SEQUENCE": OffSequence, "OFF_SHARD": OffShard, "OFF_PROCESS": OffProcess, "OFF_BEFORE": OffBefore,
	"OFF_READING": OffReading, "OFF_COMMITTED": OffCommitted, "OFF_DROPPED_BEFORE": OffDroppedBefore,
	"READING_RECORD": ReadingRecord,
	"KIND_INT64":     uint64(kind.Int64), "KIND_UINT64": uint64(kind.Uint64), "KIND_STRING": uint64(kind.String), "TYPE_STRING": kind.TypeString,
}

// TestLayout: the C library writes what this package reads.
func TestLayout(t *testing.T) {
	require.Equal(t, layout, testenv.Table(t, "../../cstapsdt/recorder/recording.def", "SDT_LAYOUT"))
}
