// Package proxy serves this repository's modules as a GOPROXY of local files, in tests, so that
// they can be fetched and installed as users do, before they are published.
package proxy
