package monitoring

import (
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// targetLabels are those that Prometheus adds to all series.
var targetLabels = []string{"instance", "job", "namespace", "pod"}

// check returns what is wrong with an expression.
func (s served) check(text string) error {
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	if err != nil {
		return err
	}
	_, err = s.labelsOf(expr)
	return err
}

// labelsOf returns the labels that the result of an expression may have. It fails if a metric is not served, or a label is
// asked for that there is not.
func (s served) labelsOf(expr parser.Expr) ([]string, error) {
	switch e := expr.(type) {
	case *parser.VectorSelector:
		return s.ofSelector(e)
	case *parser.AggregateExpr:
		of, err := s.labelsOf(e.Expr)
		if err != nil {
			return nil, err
		}
		if e.Without {
			return of, lack(e.Grouping, of, e)
		}
		return e.Grouping, lack(e.Grouping, of, e)
	case *parser.BinaryExpr:
		return s.ofBinary(e)
	}
	var all []string
	for node := range parser.ChildrenIter(expr) {
		of, err := s.labelsOf(node.(parser.Expr))
		if err != nil {
			return nil, err
		}
		all = append(all, of...)
	}
	if call, ok := expr.(*parser.Call); ok && call.Func.Name == "histogram_quantile" && !slices.Contains(all, "le") {
		return nil, fmt.Errorf("%s: has no label le", expr)
	}
	return all, nil
}

func (s served) ofSelector(e *parser.VectorSelector) ([]string, error) {
	m, has := s.series(e.Name)
	if m == nil {
		return nil, fmt.Errorf("metric %s is not among those that the scheduler serves", e.Name)
	}
	m.used = true
	has = append(slices.Clone(has), targetLabels...)
	for _, matcher := range e.LabelMatchers {
		if matcher.Name == labels.MetricName {
			continue
		}
		if err := lack([]string{matcher.Name}, has, e); err != nil {
			return nil, err
		}
	}
	return has, nil
}

func (s served) ofBinary(e *parser.BinaryExpr) ([]string, error) {
	left, err := s.labelsOf(e.LHS)
	if err != nil {
		return nil, err
	}
	right, err := s.labelsOf(e.RHS)
	if err != nil {
		return nil, err
	}
	if e.VectorMatching == nil { // One of them is a number.
		return append(slices.Clone(left), right...), nil
	}
	if err := lack(e.VectorMatching.MatchingLabels, left, e); err != nil {
		return nil, err
	}
	if err := lack(e.VectorMatching.MatchingLabels, right, e); err != nil {
		return nil, err
	}
	if e.VectorMatching.On || len(e.VectorMatching.MatchingLabels) > 0 {
		return left, nil
	}
	// Nothing matches that has other labels.
	if a, b := sorted(left), sorted(right); e.Op != parser.LOR && !slices.Equal(a, b) {
		return nil, fmt.Errorf("%s: has labels %v on the left and %v on the right", e, a, b)
	}
	return left, nil
}

func sorted(list []string) []string {
	list = slices.Sorted(slices.Values(list))
	return slices.Compact(list)
}

// lack returns an error if not all labels are there.
func lack(wanted, has []string, in fmt.Stringer) error {
	for _, label := range wanted {
		if !slices.Contains(has, label) {
			return fmt.Errorf("%s: there is no label %s; there are %s", in, label, strings.Join(has, ", "))
		}
	}
	return nil
}
