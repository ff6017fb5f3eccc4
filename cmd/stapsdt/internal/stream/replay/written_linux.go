package replay

import (
	"os"

	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/recording/recordfile"
)

// knowsWriters means that written is sure.
const knowsWriters = true

// written reports whether a process may write to a file.
func written(f *os.File, h *recording.Head) bool { return recordfile.Written(f, h) }
