package wire

import (
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// layout holds the constants of this package under the names that cstapsdt/socket/wire.def
// has for them.
var layout = map[string]uint64{
	"MAJOR": Major, "MINOR": Minor, "HEAD_BYTES": HeadBytes, "MAX_BODY": MaxBody, "MAX_PATTERNS": MaxPatterns, "MAX_NAMESAKES": MaxNamesakes,
	"HELLO": uint64(KindHello), "LIST": uint64(KindList), "PROBES": uint64(KindProbes), "DONE": uint64(KindDone),
	"WATCH": uint64(KindWatch), "WATCHING": uint64(KindWatching), "END": uint64(KindEnd), "ERROR": uint64(KindError),
	"CODE_VERSION": uint64(CodeVersion), "CODE_MALFORMED": uint64(CodeMalformed), "CODE_UNKNOWN": uint64(CodeUnknown),
	"CODE_BUSY": uint64(CodeBusy), "CODE_MEMORY": uint64(CodeMemory),
}

// TestLayout: the C library speaks the protocol of this package.
func TestLayout(t *testing.T) {
	require.Equal(t, layout, testenv.Table(t, "../../cstapsdt/socket/wire.def", "SDT_WIRE"))
}
