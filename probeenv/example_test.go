package probeenv_test

import (
	"fmt"
	"log"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/probeenv"
)

// The program is the same for every operator, who decides how its probes are watched:
//
//	$ ./shop                  # as root: stapsdt trace -p shop 'shop:*'
//	$ STAPSDT_SOCKET=1 ./shop # the same command, as the user of the program
//	$ STAPSDT_RECORD=/dev/shm/shop.rec ./shop
//	$ stapsdt trace --from /dev/shm/shop.rec 'shop:*'
func Example() {
	shop := stapsdt.NewProvider("shop") // in most programs, it is a variable of a package
	defer shop.Close()
	order := stapsdt.NewProbe2[string, int32](shop, "order__placed", "item", "count")

	if err := probeenv.Load(); err != nil {
		log.Print(err) // some probes are unavailable; the program continues
	}
	order.Fire("tea", 3)
	fmt.Println("watched:", order.Enabled())
	// Output: watched: false
}
