package probeenv_test

import (
	"fmt"
	"log"
	"net/http"

	"github.com/go-stapsdt/stapsdt/debugprobe"
	"github.com/go-stapsdt/stapsdt/probeenv"
	"github.com/go-stapsdt/stapsdt/proberec"
)

// The page of package debugprobe also shows the recording that the environment requests.
func Example_page() {
	recorder, err := proberec.FromEnvironment() // Load does not make another
	if err != nil {
		log.Print(err)
	}
	if err := probeenv.Load(); err != nil {
		log.Print(err)
	}
	mux := http.NewServeMux()
	debugprobe.Mount(mux, recorder) // recorder is nil if there is no recording
	fmt.Println("recording:", recorder.Path() != "")
	// Output: recording: false
}
