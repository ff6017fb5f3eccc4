package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// Publish fills a directory with every module of a checkout, in the layout of the module proxy
// protocol. It takes what is committed, and the version that the nested modules require of the root.
func Publish(checkout, to string) error {
	from, err := os.MkdirTemp("", "proxy")
	if err != nil {
		return err
	}
	defer os.RemoveAll(from)
	if err := committed(checkout, from); err != nil {
		return err
	}
	version, err := Version(from)
	if err != nil {
		return err
	}
	all, err := modules(from)
	for _, dir := range all {
		err = errors.Join(err, publish(dir, version, to))
	}
	return err
}

// committed fills a directory with the files of a checkout that are committed.
func committed(checkout, to string) error {
	archive := exec.Command("sh", "-ec", `git -C "$0" archive HEAD | tar -x -C "$1"`, checkout, to)
	if out, err := archive.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// Version returns the version of the root module that the nested modules of a checkout require.
func Version(checkout string) (string, error) {
	mod, err := os.ReadFile(filepath.Join(checkout, "internal/test/go.mod"))
	if err != nil {
		return "", err
	}
	required := regexp.MustCompile(`stapsdt/stapsdt (v\S+)`).FindSubmatch(mod)
	if required == nil {
		return "", errors.New("internal/test/go.mod requires no version of the root module")
	}
	return string(required[1]), nil
}

// modules returns the directories of the modules in the workspace of a checkout.
func modules(checkout string) (all []string, err error) {
	content, err := os.ReadFile(filepath.Join(checkout, "go.work"))
	if err != nil {
		return nil, err
	}
	work, err := modfile.ParseWork("go.work", content, nil)
	if err != nil {
		return nil, err
	}
	for _, use := range work.Use {
		all = append(all, filepath.Join(checkout, use.Path))
	}
	return all, nil
}

// publish writes the files of one module.
func publish(dir, version, to string) error {
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return err
	}
	m := module.Version{Path: modfile.ModulePath(mod), Version: version}
	var archive bytes.Buffer
	if err := zip.CreateFromDir(&archive, m, dir); err != nil {
		return err
	}
	at := filepath.Join(to, m.Path, "@v")
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		"list":            []byte(version + "\n"),
		version + ".info": fmt.Appendf(nil, `{"Version": %q, "Time": "2026-01-01T00:00:00Z"}`, version),
		version + ".mod":  mod,
		version + ".zip":  archive.Bytes(),
	} {
		err = errors.Join(err, os.WriteFile(filepath.Join(at, name), content, 0o644))
	}
	return err
}
