package docs_test

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// sentBack are words and phrases that readers have stumbled over, each with what to write instead. Names such as the user nobody
// are not among them.
var sentBack = map[string]string{
	`cures?`:                           "remedy, or the command to type",
	`anew`:                             "again",
	`besides`:                          "also, or in addition to",
	`somebody|whoever`:                 "the name of who acts, or if",
	`(is|are) (told|meant|given back)`: "the agent as the subject: Load returns, the user selects",
	`again and again|so many times`:    "repeatedly, or the number",
	`is there twice`:                   "duplicate",
	`harms (nobody|nothing)`:           "is safe",
}

// TestWords: no document, comment or message has one of these phrases.
func TestWords(t *testing.T) {
	patterns := map[string]*regexp.Regexp{}
	for phrase := range sentBack {
		patterns[phrase] = regexp.MustCompile(`\b(` + phrase + `)\b`)
	}
	for _, kind := range []string{"words", "product"} {
		list, err := exec.Command(root+"scripts/count.sh", "--files", kind).Output()
		require.NoError(t, err)
		files := strings.Fields(string(list))
		require.NotEmpty(t, files)
		for _, file := range files {
			text := strings.ToLower(strings.Join(strings.Fields(readFile(t, root+file)), " "))
			for phrase, instead := range sentBack {
				assert.Empty(t, patterns[phrase].FindString(text), "%s: write %s", file, instead)
			}
		}
	}
}
