//go:build !(linux && amd64)

package site

import "github.com/go-stapsdt/stapsdt/internal/image"

// choose takes the first kind, which every kernel attaches to: only on amd64
// are there others.
func choose() string {
	host := image.Host()
	if host == nil {
		return ""
	}
	return host.Sites[0].Name
}
