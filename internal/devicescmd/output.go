package devicescmd

import (
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/yaml"

	"github.com/quartermaster-dra/quartermaster/internal/devicescmd/screen"
)

// outputVersion is the version of what -o json and -o yaml print.
const outputVersion = "quartermaster-dra.io/v1alpha1"

func kindOf(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{Kind: kind, APIVersion: outputVersion}
}

// structured reports whether output is for programs, and prints it then.
func (o *options) structured(value any) (bool, error) {
	var text []byte
	var err error
	switch o.output {
	case "json":
		text, err = json.MarshalIndent(value, "", "  ")
		text = append(text, '\n')
	case "yaml":
		text, err = yaml.Marshal(value)
	default:
		return false, nil
	}
	if err != nil {
		return true, fmt.Errorf("print the result as %s: %w", o.output, err)
	}
	_, err = o.Out.Write(text)
	return true, err
}

// age is how long ago something was, as kubectl writes it.
func (o *options) age(since *metav1.Time) string {
	if since.IsZero() {
		return "-"
	}
	return duration.HumanDuration(o.now().Sub(since.Time).Truncate(time.Second))
}

// say prints a line.
func (o *options) say(format string, args ...any) { fmt.Fprintf(o.Out, format+"\n", args...) }

// heading prints a line that others belong to.
func (o *options) heading(format string, args ...any) {
	fmt.Fprintln(o.Out, o.screen.Paint(screen.Header, fmt.Sprintf(format, args...)))
}

// plural is a number with a noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// are is the verb for a number of things.
func are(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}
