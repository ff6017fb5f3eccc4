// Command wasm runs functions of a WebAssembly module that tracers can see.
package main

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/examples/wasm/wasmprobe"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// guest is made from guest/guest.c.
//
//go:embed guest/guest.wasm
var guest []byte

func main() {
	trace := flag.Bool("trace", false, "let tracers come at any time, and not before the start only")
	flag.Parse()
	if err := run(context.Background(), *trace); err != nil {
		log.Fatal(err)
	}
}

// run makes the calls on standard input: a function and its arguments per line.
func run(ctx context.Context, trace bool) error {
	provider := stapsdt.NewProvider("wasm")
	probes := wasmprobe.New(provider)
	if err := provider.Load(); err != nil {
		log.Print(err) // the probes stay no-ops
	}
	defer provider.Close()
	fmt.Println("process", os.Getpid(), "has its probes in", provider.Path())

	module, err := load(ctx, probes, trace)
	if err != nil {
		return err
	}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		if results, err := call(probes.Call(ctx), module, strings.Fields(in.Text())); err != nil {
			fmt.Println(strings.ReplaceAll(err.Error(), "\n", " "))
		} else {
			fmt.Println("=", results)
		}
	}
	return errors.Join(in.Err(), module.Close(ctx))
}

// load makes a module from the guest.
func load(ctx context.Context, probes *wasmprobe.Probes, trace bool) (api.Module, error) {
	r := wazero.NewRuntime(ctx)
	var lock sync.Mutex
	sleep := func(ms int32) { time.Sleep(time.Duration(ms) * time.Millisecond) }
	hold := func(ms int32) {
		lock.Lock()
		time.AfterFunc(time.Duration(ms)*time.Millisecond, lock.Unlock)
	}
	acquire := func() {
		lock.Lock()
		defer lock.Unlock()
	}
	host := r.NewHostModuleBuilder("host").
		NewFunctionBuilder().WithFunc(sleep).Export("sleep").
		NewFunctionBuilder().WithFunc(hold).Export("hold").
		NewFunctionBuilder().WithFunc(acquire).Export("acquire")
	if _, err := host.Instantiate(ctx); err != nil {
		return nil, fmt.Errorf("host module: %w", err)
	}
	if trace {
		ctx = probes.Listen(ctx)
	} else {
		ctx = probes.ListenIfTraced(ctx)
	}
	module, err := r.InstantiateWithConfig(ctx, guest, wazero.NewModuleConfig().WithName("guest"))
	if err != nil {
		return nil, fmt.Errorf("guest: %w", err)
	}
	return module, nil
}

func call(ctx context.Context, module api.Module, words []string) ([]uint64, error) {
	if len(words) == 0 {
		return nil, errors.New("which function?")
	}
	f := module.ExportedFunction(words[0])
	if f == nil {
		return nil, fmt.Errorf("there is no function %s", words[0])
	}
	var args []uint64
	for _, w := range words[1:] {
		n, err := strconv.ParseInt(w, 0, 32)
		if err != nil {
			return nil, err
		}
		args = append(args, api.EncodeI32(int32(n)))
	}
	return f.Call(ctx, args...)
}
