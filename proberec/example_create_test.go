package proberec_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/proberec"
)

// After a crash, stapsdt reads the file with --from FILE. A program can do without a recording: the
// methods of a nil Recorder do nothing.
func ExampleCreate() {
	dir, err := os.MkdirTemp("", "shop") // a program uses a directory that stays, on tmpfs
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	shop := stapsdt.NewProvider("shop")
	order := stapsdt.NewProbe2[string, int32](shop, "order__placed", "item", "count")

	recorder, err := proberec.Create(filepath.Join(dir, "shop.rec"), 1<<20, shop)
	if err != nil {
		log.Print(err) // the program continues without a recording
	}
	defer recorder.Close()
	if last := recorder.Previous(); last != "" {
		log.Printf("the recording of the last run is %s", last)
	}
	recorder.Start()
	order.Fire("tea", 3)
	fmt.Println(recorder.Err())
	// Output: <nil>
}
