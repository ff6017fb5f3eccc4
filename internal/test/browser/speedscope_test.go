package browser

import (
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// TestSpeedscope: speedscope opens a timeline in Chrome's format, and shows its operations.
func TestSpeedscope(t *testing.T) {
	needsBrowser(t)
	dir := t.TempDir()
	npm := testenv.NeedsTool(t, "npm", "npm")
	testenv.Downloads(t, "speedscope", exec.Command(npm, "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", dir, "speedscope@1.25.0").Run())
	script := filepath.Join(dir, "timeline.js") // as speedscope's own command writes it
	encoded := base64.StdEncoding.EncodeToString(tracetest.Must(os.ReadFile(timelineFile(t)))(t))
	require.NoError(t, os.WriteFile(script, []byte("speedscope.loadFileFromBase64('timeline.json', '"+encoded+"')"), 0o600))
	b := open(t, 1200, 760)
	b.load("file://" + filepath.Join(dir, "node_modules/speedscope/dist/release/index.html") + "#localProfilePath=" + script)
	b.wait(`document.body.innerText.includes("(1/3)")`) // the tracks: two goroutines, and the operation that outlives the one it is in
	require.Contains(t, b.eval(`document.body.innerText`), ", goroutine ")
	b.press("3") // the table
	b.wait(`document.body.innerText.includes("Symbol Name")`)
	table := fmt.Sprint(b.eval(`document.body.innerText`))
	require.Regexp(t, `drawn:query \{.*"error":"broken"`, table)
	found := regexp.MustCompile(`([\d.]+)m?s \(>?\d+%\)\s+([\d.]+)ms \(\d+%\)\s+drawn:request \{.*"path":"/`).FindStringSubmatch(table)
	require.NotNil(t, found, table)
	total, own := tracetest.Must(strconv.ParseFloat(found[1], 64))(t), tracetest.Must(strconv.ParseFloat(found[2], 64))(t)
	require.Greater(t, total, own, "the query is in the request")
}
