//! Writes random meshes as scenario files, one of each kind in turn.
//!
//! Arguments: `meshes FIRST COUNT FOLDER [PERCENT]`. With a percentage, only this fraction of the
//! nodes, drawn at random, takes part in the control.

use std::path::PathBuf;

use fairmesh_experiments::study::families::Times;
use fairmesh_experiments::study::meshes::meshes;
use fairmesh_units::Stream;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let [first, count, folder, percent @ ..] = &given[..] else {
        return Err(
            "expected: meshes FIRST COUNT FOLDER [PERCENT], such as meshes 100 6 /tmp/meshes 50"
                .into(),
        );
    };
    let percent: Option<u32> = percent.first().map(|p| p.parse()).transpose()?;
    let folder = PathBuf::from(folder);
    std::fs::create_dir_all(&folder)?;
    let times = Times { duration_s: 120, warmup_s: 60 };
    for mesh in meshes(first.parse()?, count.parse()?, times)? {
        let file = folder.join(format!("{}.toml", mesh.name));
        let mut text = mesh.text.clone();
        if let Some(percent) = percent {
            let nodes = mesh.scenario()?.nodes().len() as u32;
            let mut chance = Stream::new(u64::from(percent), &mesh.name);
            let mut left: Vec<u32> = (0..nodes).collect();
            let mut part: Vec<u32> = (0..nodes * percent.min(100) / 100)
                .map(|_| left.swap_remove(chance.below(left.len() as u32) as usize))
                .collect();
            part.sort_unstable();
            text += &format!("\n[control]\nuse = \"mesh-maxmin\"\nnodes = {part:?}\n");
        }
        std::fs::write(&file, &text)?;
        println!("{}: {}", file.display(), mesh.about);
    }
    Ok(())
}
