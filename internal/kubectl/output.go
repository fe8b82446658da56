package kubectl

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/yaml"

	"github.com/quartermaster-dra/quartermaster/internal/kubectl/screen"
)

// outputVersion is the apiVersion of the output with -o json and -o yaml.
const outputVersion = "quartermaster-dra.io/v1alpha1"

func kindOf(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{Kind: kind, APIVersion: outputVersion}
}

// structured prints the value if the output format is for programs, and reports whether it is.
func (o *options) structured(value any) (bool, error) {
	var text []byte
	var err error
	switch o.output {
	case "name":
		return true, o.printNames(value)
	case "json":
		text, err = json.MarshalIndent(value, "", "  ")
		text = append(text, '\n')
	case "yaml":
		if text, err = json.Marshal(value); err == nil {
			text, err = yaml.JSONToYAML([]byte(screen.Clean(string(text)))) // The converter refuses unescaped control characters.
		}
	default:
		if o.printer != nil {
			return true, o.printByTemplate(value)
		}
		return false, nil
	}
	if err != nil {
		return true, fmt.Errorf("print the result as %s: %w", o.output, err)
	}
	w := o.Out
	if o.output == "yaml" && !o.screen.Terminal {
		w = screen.Raw(w) // Data stays as it is. In JSON, cleaning only escapes characters, which does not change the meaning.
	}
	_, err = w.Write(text)
	return true, err
}

// age returns the time since a timestamp, in kubectl's format.
func (o *options) age(since *metav1.Time) string {
	if since.IsZero() {
		return "-"
	}
	return duration.HumanDuration(o.now().Sub(since.Time).Truncate(time.Second))
}

// say prints a line. Line breaks in users' texts do not start a new one.
func (o *options) say(format string, args ...any) { fmt.Fprintf(o.Out, format+"\n", inLine(args)...) }

func inLine(args []any) []any {
	clean := slices.Clone(args)
	for i := range clean {
		switch arg := clean[i].(type) {
		case string:
			clean[i] = screen.CleanLine(arg)
		case error:
			clean[i] = screen.CleanLine(arg.Error())
		}
	}
	return clean
}

// heading prints the heading of the following lines.
func (o *options) heading(format string, args ...any) {
	fmt.Fprintln(o.Out, o.screen.Paint(screen.Header, fmt.Sprintf(format, inLine(args)...)))
}

// plural returns a number with a noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// are returns the verb for a number of things.
func are(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}
