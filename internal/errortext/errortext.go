// Package errortext asks errors of the program for their text, which is the one method of its
// values that instrumentation calls by itself.
package errortext

import "fmt"

// Of returns the text of an error, or "" for nil. If Error panics, as it may for a nil pointer,
// or returns no text, it is the name of the error's type: the program must not notice.
func Of(err error) (text string) {
	if err == nil {
		return ""
	}
	defer func() {
		if recover() != nil || text == "" {
			text = fmt.Sprintf("%T", err)
		}
	}()
	return err.Error()
}
