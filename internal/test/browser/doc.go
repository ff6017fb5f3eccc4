// Package browser tests package debugprobe's page in a real browser: Chromium, without a
// window, driven through its DevTools protocol.
package browser
