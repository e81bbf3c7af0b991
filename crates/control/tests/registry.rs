//! A registry takes definitions with names that are known at run time only.
//!
//! It refuses those that could not be distinguished or written into a file.

use std::sync::Arc;

use fairmesh_control::{
    Actions, Control, Definition, DefinitionError, Event, Instance, Mechanism, Needs, Offers,
    Origin, Parameter, Placement, PlacementSet, Plan, Registry, Runs, Setting, Site, Variant,
};
use fairmesh_units::{NodeId, Stream, Time};

#[derive(Debug)]
struct Idle;

impl Control for Idle {
    fn on(&mut self, _now: Time, _event: &Event<'_>, _actions: &mut Actions) {}
    fn next_deadline(&self) -> Option<Time> {
        None
    }
}

fn parameter(name: &str) -> Parameter {
    Parameter {
        name: name.to_owned().into(),
        unit: "s".into(),
        about: "a time".into(),
        default: 2.0,
        min: 1.0,
        max: 3.0,
        whole: false,
    }
}

fn variant(name: &str) -> Variant {
    Variant { name: name.to_owned().into(), origin: Origin::ours(""), about: "a variant".into() }
}

/// A definition as a plug-in would make it: nothing in it is static.
fn plug_in(name: &str) -> Definition {
    let needs = Needs { at: PlacementSet::of(&[Placement::Gateway]), ..Needs::default() };
    let runs = Runs::at(
        move |_| vec![needs],
        |chosen, _| {
            assert_eq!((chosen.has(0), chosen.has(1), chosen.value(0)), (false, true, 2.5));
            Ok(Instance { control: Box::new(Idle), plan: Plan::none() })
        },
    );
    Definition {
        variants: vec![variant("first"), variant("second")],
        parameters: vec![parameter("time")],
        ..Definition::new(name.to_owned(), format!("plug-in {name}"), Origin::ours(""))
            .with_runs(runs)
            .with_revision("plug-in 1")
    }
}

#[test]
fn a_definition_made_at_run_time_is_found_with_its_options_and_starts() {
    let mut registry = Registry::standard();
    let shipped = registry.all().count();
    registry.add(plug_in("mine")).unwrap();
    let mut mine = registry.lookup("mine+second").unwrap();
    mine.set("time", 2.5).unwrap();
    assert_eq!(mine.to_string(), "mine+second");
    let setting = |gateway| {
        let site = Site::new().with_gateway(gateway);
        Setting::new(NodeId(0), site, Stream::new(1, "registry"))
    };
    let offers = Offers::everything("test");
    assert!(mine.start(setting(true), &offers).unwrap().is_some());
    assert!(mine.start(setting(false), &offers).unwrap().is_none());
    // It is known to this registry alone.
    assert_eq!(registry.all().count(), shipped + 1);
    assert!(Registry::standard().lookup("mine").is_err());
    let unknown = registry.lookup("yours").unwrap_err();
    assert_eq!(unknown.known.last().unwrap(), "mine");
}

#[test]
fn an_empty_registry_knows_no_control_but_its_absence() {
    let registry = Registry::empty();
    assert_eq!(registry.all().map(|d| &*d.name).collect::<Vec<_>>(), ["fifo"]);
    assert_eq!(registry.lookup("fifo").unwrap(), Mechanism::none());
    let unknown = registry.lookup("pfrc").unwrap_err().to_string();
    assert_eq!(unknown, "unknown control \"pfrc\"; known: fifo");
}

#[test]
fn a_definition_that_could_not_be_used_is_refused_with_its_reason() {
    let mut registry = Registry::standard();
    let refused = |r: &mut Registry, definition: Definition| r.add(definition).unwrap_err();
    let own = "own".to_owned();
    assert_eq!(
        refused(&mut registry, plug_in("pfrc")),
        DefinitionError::Duplicate { name: "pfrc".to_owned() }
    );
    for name in ["", "a+b", "a b", "1st"] {
        let error = refused(&mut registry, plug_in(name));
        let (control, name) = (name.to_owned(), name.to_owned());
        assert_eq!(error, DefinitionError::Name { control, name });
    }
    assert_eq!(
        refused(&mut registry, plug_in("own").with_revision("")),
        DefinitionError::NoRevision { control: own.clone() }
    );
    let with = |variants: &[&str], parameters: Vec<Parameter>| Definition {
        variants: variants.iter().map(|v| variant(v)).collect(),
        parameters,
        ..plug_in("own")
    };
    assert_eq!(
        refused(&mut registry, with(&["a", "b", "a"], vec![])),
        DefinitionError::RepeatedOption { control: own.clone(), option: "a".to_owned() }
    );
    assert_eq!(
        refused(&mut registry, with(&["a+b"], vec![])),
        DefinitionError::Name { control: own.clone(), name: "a+b".to_owned() }
    );
    assert_eq!(
        refused(&mut registry, with(&[], vec![parameter("use")])),
        DefinitionError::ReservedKey { control: own.clone(), parameter: "use".to_owned() }
    );
    let outside = Parameter { default: 3.5, ..parameter("time") };
    assert_eq!(
        refused(&mut registry, with(&[], vec![outside])),
        DefinitionError::Default {
            control: own.clone(),
            parameter: "time".to_owned(),
            default: 3.5
        }
    );
    let many: Vec<String> = (0..65).map(|n| format!("v{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(
        refused(&mut registry, with(&many, vec![])),
        DefinitionError::TooManyVariants { control: own, number: 65 }
    );
    assert!(registry.lookup("own").is_err(), "nothing of what was refused is there");
    // The last of 64 variants is distinct from the first.
    registry.add(with(&many[..64], vec![])).unwrap();
    assert_ne!(registry.lookup("own+v63").unwrap(), registry.lookup("own+v0").unwrap());
}

#[test]
fn a_removed_control_names_its_replacement() {
    let known = |name: &str| Registry::standard().lookup(name).unwrap_err().known;
    assert_eq!(known("maxmin"), ["rtt"]);
    assert_eq!(known("maxmin+counters"), ["rtt"]);
    assert_eq!(known("maxmin+agents"), ["rtt+agents"]);
    assert!(Registry::empty().lookup("maxmin").unwrap_err().known.contains(&"fifo".to_owned()));
}

#[test]
fn a_registry_is_a_value_that_threads_share() {
    fn shared<T: Send + Sync + Clone + 'static>(_: &T) {}
    let registry = Arc::new(Registry::standard());
    shared(&registry);
    shared(&registry.lookup("rtt").unwrap());
    let there = Arc::clone(&registry);
    let name = std::thread::spawn(move || there.lookup("pfrc+peers").unwrap().to_string());
    assert_eq!(name.join().unwrap(), "pfrc+peers");
}
