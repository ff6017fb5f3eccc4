package main

import (
	"log/slog"
	"os"
	"path/filepath"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/proberec"
)

// recordBytes is the size of a recording: the last 200,000 events or so.
const recordBytes = 16 << 20

// record keeps the last events of a provider in a file, however the process ends. The file's
// directory is made if it is missing, because others may write to the volume itself, which Create
// refuses.
func record(path string, app *stapsdt.Provider, log *slog.Logger) (*proberec.Recorder, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	r, err := proberec.Create(path, recordBytes, app)
	if err != nil {
		return nil, err
	}
	r.Start()
	if kept := r.Previous(); kept != "" {
		log.Info("the recording of the last run is kept", "file", kept)
	}
	return r, nil
}
