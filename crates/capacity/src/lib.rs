//! Analytic capacity models: nominal link capacity, collision domains, max-min, Bianchi
