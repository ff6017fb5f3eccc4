// Package proxy serves this repository's modules as a GOPROXY of local files, so that
// they can be fetched and installed as users do, before they are published.
package proxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// Modules returns the directories of the modules that the workspace of a repository
// uses, relative to the repository.
func Modules(repository string) ([]string, error) {
	path := filepath.Join(repository, "go.work")
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	work, err := modfile.ParseWork(path, content, nil)
	if err != nil {
		return nil, err
	}
	var dirs []string
	for _, use := range work.Use {
		dirs = append(dirs, filepath.Clean(use.Path))
	}
	return dirs, nil
}

// Write fills a directory with every module of the repository, at a version, in the
// layout of the module proxy protocol. It takes what is committed. GOPROXY=file://dir
// then serves it.
func Write(repository, dir, version string) error {
	committed, err := os.MkdirTemp("", "stapsdt-proxy-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(committed)
	if err := export(repository, committed); err != nil {
		return err
	}
	modules, err := Modules(committed)
	if err != nil {
		return err
	}
	for _, m := range modules {
		if err := write(committed, m, dir, version); err != nil {
			return err
		}
	}
	return nil
}

// export copies what is committed.
func export(repository, dir string) error {
	archive, err := exec.Command("git", "-C", repository, "archive", "HEAD").Output()
	if err != nil {
		return fmt.Errorf("git archive: %w", err)
	}
	untar := exec.Command("tar", "-x", "-C", dir)
	untar.Stdin = bytes.NewReader(archive)
	if out, err := untar.CombinedOutput(); err != nil {
		return fmt.Errorf("tar: %w: %s", err, out)
	}
	return nil
}

func write(repository, subdir, dir, version string) error {
	content, err := os.ReadFile(filepath.Join(repository, subdir, "go.mod"))
	if err != nil {
		return err
	}
	m := module.Version{Path: modfile.ModulePath(content), Version: version}
	var archive bytes.Buffer
	if err := zip.CreateFromDir(&archive, m, filepath.Join(repository, subdir)); err != nil {
		return err
	}
	info, err := json.Marshal(struct {
		Version string
		Time    time.Time
	}{version, time.Now().UTC()})
	if err != nil {
		return err
	}
	directory := filepath.Join(dir, m.Path, "@v")
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		"list":            []byte(version + "\n"),
		version + ".info": info,
		version + ".mod":  content,
		version + ".zip":  archive.Bytes(),
	} {
		if err := os.WriteFile(filepath.Join(directory, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
