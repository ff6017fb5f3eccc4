package probesock_test

import (
	"fmt"
	"log"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/probesock"
)

// From Listen on, the program's own user can run this, without root:
//
//	$ stapsdt trace -p PID shop:order__placed -w 'count > 100'
func Example() {
	listener, err := probesock.Listen()
	if err != nil {
		log.Print(err) // the program continues, but cannot be watched this way
	}
	defer listener.Close() // it may be nil

	shop := stapsdt.NewProvider("shop") // it can be watched even if it is not loaded
	defer shop.Close()
	order := stapsdt.NewProbe2[string, int32](shop, "order__placed", "item", "count")
	order.Fire("tea", 3)
	fmt.Println(listener.Watchers(), "watchers")
	// Output: 0 watchers
}
