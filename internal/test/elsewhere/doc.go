// Package elsewhere checks the types of our packages for other architectures and systems.
package elsewhere
