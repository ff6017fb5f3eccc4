package debugprobe_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/go-stapsdt/stapsdt/debugprobe"
)

// operatorsOnly stands for the authentication of a program, which also checks the password.
func operatorsOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, _, _ := r.BasicAuth(); user != "operator" {
			http.Error(w, "only operators may see the probes", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// The page shows the arguments of all probes: in a server for everybody, it needs authentication.
func ExampleHandler() {
	mux := http.NewServeMux()
	mux.Handle("/internal/probes/", operatorsOnly(debugprobe.Handler()))

	for _, user := range []string{"customer", "operator"} {
		r := httptest.NewRequest("GET", "/internal/probes/", nil)
		r.SetBasicAuth(user, "")
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		fmt.Println(user, w.Code)
	}
	// Output:
	// customer 403
	// operator 200
}
