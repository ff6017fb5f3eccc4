package main

import (
	"errors"
	"go/scanner"
	"go/token"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/outfile"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/tools/dlang"

	"github.com/spf13/cobra"
)

type generator struct {
	*console.Console
	pkg, out string
}

func generateCommand(to *console.Console) *cobra.Command {
	g := &generator{Console: to}
	c := &cobra.Command{
		Use:   "generate FILE.d",
		Short: "Write the providers of a file in D as typed probes in Go",
		Long: `Write the providers that a file in the D language of DTrace defines as typed probes in Go,
with the names and types of their arguments. FILE_probes.go is written beside FILE.d. Use it
with go generate, whose environment names the package:

  //go:generate stapsdt generate myapp.d

A definition that D allows but a probe in Go cannot have is an error with its file, line and column.`,
		Example: `  stapsdt generate myapp.d --package probes --out internal/probes/myapp.go
  cpp myapp.d | stapsdt generate --package probes --out myapp_probes.go -`,
		RunE: func(_ *cobra.Command, args []string) error { return g.run(args) },
	}
	c.Flags().StringVar(&g.pkg, "package", os.Getenv("GOPACKAGE"), "the `NAME` of the package, by default $GOPACKAGE, which go generate sets, or main")
	c.Flags().StringVar(&g.out, "out", "", "the `FILE` to write, or - for the standard output")
	c.Flags().Lookup("package").DefValue = ""
	return c
}

func (g *generator) run(files []string) error {
	if len(files) != 1 {
		return query.Usagef("generate takes one file in D, or - for the standard input")
	}
	if g.pkg == "" {
		g.pkg = "main"
	}
	if !token.IsIdentifier(g.pkg) || g.pkg == "_" {
		return query.Usagef("%q is not a valid package name", g.pkg)
	}
	name, data, err := g.read(files[0])
	if err != nil {
		return err
	}
	code, err := dlang.Generate(name, string(data), g.pkg)
	var wrong dlang.Errors
	if errors.As(err, &wrong) {
		// Print errors like a compiler, so that editors find the place.
		scanner.PrintError(g.Err, wrong)
		return statusError(exitFailure)
	}
	if err != nil {
		return err
	}
	if g.out == "-" {
		_, err = g.Out.Write(code)
		return err
	}
	if err := outfile.Check(g.out, dlang.Begins); err != nil {
		return err
	}
	return os.WriteFile(g.out, code, 0o666)
}

// read returns the name and the text of the file in D, and sets the default of g.out.
func (g *generator) read(file string) (name string, data []byte, err error) {
	if file != "-" {
		if g.out == "" {
			g.out = strings.TrimSuffix(file, filepath.Ext(file)) + "_probes.go"
		}
		data, err = os.ReadFile(file)
		return file, data, err
	}
	if g.out == "" {
		return "", nil, query.Usagef("generate does not know which file to write for the standard input: use --out FILE")
	}
	data, err = io.ReadAll(os.Stdin)
	return "<stdin>", data, err
}
