package kubectl

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
	columns "k8s.io/kubectl/pkg/cmd/get"

	"github.com/quartermaster-dra/quartermaster/internal/kubectl/screen"
)

// outputs lists the values of --output without a template.
var outputs = []string{"wide", "name", "json", "yaml"}

// templateFormats makes printers of formats that have a template, such as jsonpath={.items}.
type templateFormats interface {
	AllowedFormats() []string
	ToPrinter(format string) (printers.ResourcePrinter, error)
}

func templates() []templateFormats {
	return []templateFormats{genericclioptions.NewKubeTemplatePrintFlags(), columns.NewCustomColumnsPrintFlags()}
}

// templateOutputs lists the values of --output that need a template after them.
func templateOutputs() []string {
	var all []string
	for _, formats := range templates() {
		for _, format := range formats.AllowedFormats() {
			all = append(all, format+"=")
		}
	}
	slices.Sort(all)
	return all
}

// validate refuses output formats that do not exist, and prepares the printer of those with a template.
func (o *options) validate() error {
	if o.output == "" || slices.Contains(outputs, o.output) {
		return nil
	}
	format, _, _ := strings.Cut(o.output, "=")
	for _, formats := range templates() {
		printer, err := formats.ToPrinter(o.output)
		if genericclioptions.IsNoCompatiblePrinterError(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("output format %q cannot be used: %w; write it as %s=…", o.output, err, format)
		}
		o.printer = printer
		return nil
	}
	return fmt.Errorf("output format %q does not exist; use one of %s", o.output, strings.Join(append(outputs, templateOutputs()...), ", "))
}

// printByTemplate prints a result by the template of --output. Custom columns have a row for each item of a list.
func (o *options) printByTemplate(value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	content := make(map[string]any)
	if err := json.Unmarshal(text, &content); err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	cleaned(content)
	var object runtime.Object = &unstructured.Unstructured{Object: content}
	items, isList := content["items"].([]any)
	if _, inColumns := o.printer.(*columns.CustomColumnsPrinter); inColumns && isList {
		object = listOf(items)
	}
	return o.printer.PrintObj(object, o.Out)
}

// cleaned replaces line breaks and control characters in the texts of a value, so that only the template starts lines.
func cleaned(value any) any {
	switch value := value.(type) {
	case string:
		return screen.CleanLine(value)
	case []any:
		for i := range value {
			value[i] = cleaned(value[i])
		}
	case map[string]any:
		for key := range value {
			value[key] = cleaned(value[key])
		}
	}
	return value
}

func listOf(items []any) *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	for _, item := range items {
		if content, is := item.(map[string]any); is {
			list.Items = append(list.Items, unstructured.Unstructured{Object: content})
		}
	}
	return list
}

// named is a result with objects that other commands take by name.
type named interface {
	// names returns the objects as KIND/NAME.
	names() []string
}

// printNames prints a line for each object of a result.
func (o *options) printNames(value any) error {
	result, is := value.(named)
	if !is {
		return fmt.Errorf("-o name prints names of devices, claims and pods, and this command finds none; use it with list or holders, or choose one of %s",
			strings.Join(slices.DeleteFunc(slices.Clone(outputs), func(f string) bool { return f == "name" }), ", "))
	}
	for _, name := range result.names() {
		o.say("%s", name)
	}
	return nil
}
