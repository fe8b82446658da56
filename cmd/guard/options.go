package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	cliflag "k8s.io/component-base/cli/flag"
	componentbaseconfig "k8s.io/component-base/config"
	electionoptions "k8s.io/component-base/config/options"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"

	"github.com/quartermaster-dra/quartermaster/internal/guard"
	"github.com/quartermaster-dra/quartermaster/internal/guard/election"
)

const (
	// defaultNamespace is where Lease and Secret are if the guard does not run in a pod.
	defaultNamespace = "quartermaster-guard"
	// namespaceFile tells a pod its namespace.
	namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
	defaultPort   = 9443
	// How guards are reached.
	registerService, registerURL = "service", "url"
)

// options are the flags.
type options struct {
	kubeconfig     string
	qps            float32
	register       string
	service        string
	mode           string
	failurePolicy  string
	requestTimeout time.Duration
	serving        *genericoptions.SecureServingOptions
	election       componentbaseconfig.LeaderElectionConfiguration
	logs           *logs.Options
}

func newOptions() *options {
	o := &options{
		qps: 1000, register: registerService, service: "quartermaster-guard", mode: string(guard.Enforce),
		failurePolicy: string(admissionregistrationv1.Ignore), requestTimeout: time.Minute,
		serving: genericoptions.NewSecureServingOptions(), logs: logs.NewOptions(),
		election: componentbaseconfig.LeaderElectionConfiguration{
			LeaderElect: true, ResourceLock: "leases", ResourceName: election.LeaseName, ResourceNamespace: ownNamespace(),
			LeaseDuration: metav1.Duration{Duration: 15 * time.Second},
			RenewDeadline: metav1.Duration{Duration: 10 * time.Second},
			RetryPeriod:   metav1.Duration{Duration: 2 * time.Second},
		},
	}
	o.serving.BindPort = defaultPort
	return o
}

// flags returns the flags by section.
func (o *options) flags() cliflag.NamedFlagSets {
	var sets cliflag.NamedFlagSets
	main := sets.FlagSet("guard")
	main.StringVar(&o.kubeconfig, "kubeconfig", o.kubeconfig, "File that says where the API server is. Without it, the guard uses the account of its pod.")
	main.Float32Var(&o.qps, "kube-api-qps", o.qps, "Requests per second to the API server, and how many may come at once.")
	main.StringVar(&o.register, "register", o.register, "How API servers reach the guard: \"service\", as the ValidatingWebhookConfiguration "+
		"quartermaster-guard says that was installed; or \"url\": the guard registers https://BIND-ADDRESS:SECURE-PORT there.")
	main.StringVar(&o.service, "service", o.service, "Name of the guard's Service, in the namespace of its Lease.")
	main.StringVar(&o.mode, "mode", o.mode, "\"Enforce\" denies allocations of what others hold. \"Warn\" lets them pass, and only counts and reports them.")
	main.StringVar(&o.failurePolicy, "failure-policy", o.failurePolicy, "With --register=url, for a configuration that does not exist yet: what API servers do while no guard answers, "+
		"\"Ignore\" (allocations pass) or \"Fail\" (there are none).")
	main.DurationVar(&o.requestTimeout, "request-timeout", o.requestTimeout, "The API servers' --request-timeout. It matters only for claims that the guard cannot write to.")
	serving := sets.FlagSet("secure serving")
	o.serving.AddFlags(serving)
	electionoptions.BindLeaderElectionFlags(&o.election, sets.FlagSet("leader election"))
	logsapi.AddFlags(o.logs, sets.FlagSet("logs"))
	return sets
}

// validate returns what is wrong with the flags.
func (o *options) validate() error {
	oneOf := func(flag, value string, allowed ...string) error {
		for _, a := range allowed {
			if value == a {
				return nil
			}
		}
		return fmt.Errorf("--%s=%q is none of %s", flag, value, strings.Join(allowed, ", "))
	}
	errs := o.serving.Validate()
	errs = append(errs,
		oneOf("register", o.register, registerService, registerURL),
		oneOf("mode", o.mode, string(guard.Enforce), string(guard.Warn)),
		oneOf("failure-policy", o.failurePolicy, string(admissionregistrationv1.Ignore), string(admissionregistrationv1.Fail)))
	if !o.election.LeaderElect {
		errs = append(errs, errors.New("--leader-elect=false: guards have to elect the one that decides"))
	}
	if o.requestTimeout <= 0 {
		errs = append(errs, fmt.Errorf("--request-timeout=%s must be more than zero", o.requestTimeout))
	}
	return errors.Join(errs...)
}

// serviceNames are the names that a Service has in the cluster.
func (o *options) serviceNames() []string {
	name := o.service + "." + o.election.ResourceNamespace + ".svc"
	return []string{name, name + ".cluster.local"}
}

// identity is unique to this process.
func identity() string {
	host, err := os.Hostname()
	if err != nil {
		host = "guard"
	}
	return host + "_" + string(uuid.NewUUID())
}

func ownNamespace() string {
	if content, err := os.ReadFile(namespaceFile); err == nil {
		return strings.TrimSpace(string(content))
	}
	return defaultNamespace
}
