// Package namedresources evaluates the CEL expressions of v1alpha2 (KEP-4381 as of
// Kubernetes 1.30) for devices of the hub.
//
// The environment is that of 1.30: a map for each kind of attribute (attributes.int), and the function libraries of
// the scheduler in 1.30. A map lacks attributes that the device does not have or has with another kind; looking up
// such an attribute is an error.
package namedresources

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/blang/semver/v4"
	"github.com/google/cel-go/cel"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/version"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
	dracel "k8s.io/dynamic-resource-allocation/cel"

	"github.com/quartermaster-dra/quartermaster/internal/api/v1alpha2"
	"github.com/quartermaster-dra/quartermaster/internal/boundedcel"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// variable returns the name of a kind's map.
func variable(kind v1alpha2.Kind) string { return "attributes." + string(kind) }

// types are the CEL types of the kinds.
var types = map[v1alpha2.Kind]*cel.Type{
	v1alpha2.KindQuantity:    apiservercel.QuantityType,
	v1alpha2.KindBool:        cel.BoolType,
	v1alpha2.KindInt:         cel.IntType,
	v1alpha2.KindIntSlice:    cel.ListType(cel.IntType),
	v1alpha2.KindString:      cel.StringType,
	v1alpha2.KindStringSlice: cel.ListType(cel.StringType),
	v1alpha2.KindVersion:     apiservercel.SemverType,
}

// newEnvironment returns the environment of 1.30. That takes milliseconds, so it is created for the first expression.
var newEnvironment = sync.OnceValues(func() (*cel.Env, error) {
	const what = "make the CEL environment of v1alpha2"
	release := version.MajorMinor(1, 30)
	options := []cel.EnvOption{library.SemverLib(library.SemverVersion(0))}
	for kind, celType := range types {
		options = append(options, cel.Variable(variable(kind), cel.MapType(cel.StringType, celType)))
	}
	set, err := environment.MustBaseEnvSet(release).Extend(environment.VersionedOptions{
		IntroducedVersion: release,
		EnvOptions:        options,
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	env, err := set.Env(environment.NewExpressions) // "New" as of 1.30.
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return env, nil
})

// Language implements selector.Language. It caches nothing, because evaluators cache programs.
type Language struct{}

var _ selector.Language = Language{}

// Compile implements selector.Language.
func (Language) Compile(marked string) (selector.Program, bool, error) {
	expression, is := v1alpha2.CutMark(marked)
	if !is {
		return nil, false, nil
	}
	program, err := compile(expression)
	return program, true, err
}

func compile(expression string) (selector.Program, error) {
	env, err := newEnvironment()
	if err != nil {
		return nil, err
	}
	ast, issues := env.Compile(expression)
	if issues != nil {
		return nil, errors.New(issues.String())
	}
	if ast.OutputType() != cel.BoolType {
		return nil, fmt.Errorf("must evaluate to bool and is %s", ast.OutputType())
	}
	program, err := env.Program(ast,
		cel.CostLimit(celconfig.PerCallLimit),
		cel.InterruptCheckFrequency(celconfig.CheckFrequency),
		boundedcel.Option(),
	)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, device dracel.Device) (bool, error) {
		variables, err := variablesOf(device)
		if err != nil {
			return false, err
		}
		result, _, err := program.ContextEval(ctx, variables)
		if err != nil {
			return false, err
		}
		matches, ok := result.Value().(bool)
		if !ok {
			return false, fmt.Errorf("the result is %s and not a bool", result.Type().TypeName())
		}
		return matches, nil
	}, nil
}

// variablesOf returns the maps with a device's attributes.
func variablesOf(device dracel.Device) (map[string]any, error) {
	maps := make(map[v1alpha2.Kind]map[string]any, len(types))
	variables := make(map[string]any, len(types))
	for kind := range types {
		maps[kind] = make(map[string]any)
		variables[variable(kind)] = maps[kind]
	}
	put := func(qualified resourceapi.QualifiedName, value any) {
		kind, name, _ := strings.Cut(string(qualified), "/")
		if of, known := maps[v1alpha2.Kind(kind)]; known {
			of[name] = value
		}
	}
	for name, capacity := range device.Capacity {
		put(name, apiservercel.Quantity{Quantity: &capacity.Value})
	}
	for name, attribute := range device.Attributes {
		value, err := valueOf(&attribute)
		if err != nil {
			return nil, fmt.Errorf("attribute %s: %w", name, err)
		}
		put(name, value)
	}
	return variables, nil
}

func valueOf(attribute *resourceapi.DeviceAttribute) (any, error) {
	switch {
	case attribute.BoolValue != nil:
		return *attribute.BoolValue, nil
	case attribute.IntValue != nil:
		return *attribute.IntValue, nil
	case attribute.IntValues != nil:
		return attribute.IntValues, nil
	case attribute.StringValue != nil:
		return *attribute.StringValue, nil
	case attribute.StringValues != nil:
		return attribute.StringValues, nil
	case attribute.VersionValue != nil:
		parsed, err := semver.Parse(*attribute.VersionValue)
		if err != nil {
			return nil, fmt.Errorf("read %q as a semantic version: %w", *attribute.VersionValue, err)
		}
		return apiservercel.Semver{Version: parsed}, nil
	}
	return nil, errors.New("it has no value of a kind that v1alpha2 knows")
}
